"""An order."""

from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
    receipt = models.CharField(max_length=200, blank=True)
